// Numbers and places as text: the same digits that Python would write.

/** A number for readers: `digits` significant digits, whole numbers as such. */
function formatNumber(value, digits = 4) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (Number.isInteger(value) && Math.abs(value) < 10 ** Math.max(digits, 6)) return String(value + 0);
  const [mantissa, power] = roundedToEven(value, digits).split("e");
  const exponent = Number(power);
  const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${bare(mantissa)}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  return bare(Number(`${mantissa}e${exponent}`).toFixed(digits - 1 - exponent));
}

/** `1.562e+0`: like toExponential, but halves go to the even digit, as Python rounds. */
function roundedToEven(value, digits) {
  const [mantissa, exponent] = value.toExponential(100).split("e");
  const point = mantissa.indexOf(".");
  const kept = mantissa.slice(0, point + digits);
  const half = /^50*$/.test(mantissa.slice(point + digits)) && Number(kept.at(-1)) % 2 === 0;
  return half && digits > 1 ? `${kept}e${exponent}` : value.toExponential(digits - 1);
}

function unravel(shape, place) {
  const index = new Array(shape.length);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index[axis] = place % shape[axis];
    place = Math.floor(place / shape[axis]);
  }
  return index;
}

function cellName(step, place) {
  return step.shape.length ? `${step.name}[${unravel(step.shape, place).join(", ")}]` : step.name;
}

/** The places of the values that matter most, in their own order; all if they are few. */
function largestTerms(values, most, kind = "sum") {
  if (values.length <= most) return values.map((_, place) => place);
  const upwards = ["max", "argmax", "largest", "place largest"].includes(kind);
  const downwards = ["min", "argmin", "smallest", "place smallest"].includes(kind);
  const size = (value) => {
    const known = Number.isNaN(value) ? Infinity : value;
    return upwards ? known : downwards ? -known : Math.abs(known);
  };
  const order = values.map((_, place) => place).sort((a, b) => size(values[b]) - size(values[a]) || a - b);
  return order.slice(0, most).sort((a, b) => a - b);
}
