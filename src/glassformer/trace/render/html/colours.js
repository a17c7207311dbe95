// Numbers as colours: the scales that colours.py chose, and which ink can be read on them.

function between(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((part, channel) => Math.round(part + (stops[low + 1][channel] - part) * (at - low)));
}

function colourOf(scale, value) {
  if (!scale || !Number.isFinite(value)) return null;
  const [kind, limit] = scale;
  return between(data.colours[kind], kind === "signed" ? (value / limit + 1) / 2 : value);
}

const inkOn = ([red, green, blue]) => (0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000" : "#fff");
