// Keyboard, click and touch; notes; fitting and zooming. The page works without any of it in print.
(() => {
  const stage = document.getElementById('stage');
  const slides = [...stage.querySelectorAll('.slide')];
  const bar = document.getElementById('bar');
  const count = document.getElementById('count');
  const notes = document.getElementById('notes');
  const SMALLEST = 0.8; // 30 px of small type become 24
  const NARROWEST = 0.28; // of the width, for sentences beside a drawing
  let at = 0;

  // A full slide is shrunk a little; a drawing is made as large as its slide.
  function fit(slide) {
    const body = slide.querySelector('.body');
    const room = slide.querySelector('.room');
    const svg = slide.classList.contains('drawing') ? body.querySelector('svg') : null;
    body.style.zoom = 1;
    let by = 1;
    if (svg === null) {
      const tallest = room.getBoundingClientRect().height;
      by = Math.max(SMALLEST, Math.min(1, room.clientWidth / Math.max(body.scrollWidth, 1)));
      body.style.zoom = by;
      while (by > SMALLEST && body.getBoundingClientRect().height > tallest) {
        by = Math.max(SMALLEST, by - 0.02); // lines and rows break anew at each size
        body.style.zoom = by;
      }
    } else {
      svg.style.width = ''; // measured anew, so that it gets the same size again
      const box = svg.viewBox.baseVal;
      const size = svg.getBoundingClientRect();
      const beside = svg.closest('.beside') !== null;
      const above = beside ? (size.top - room.getBoundingClientRect().top) / scale()
        : body.offsetHeight - size.height / scale();
      const across = (beside ? 1 - NARROWEST : 1) * room.clientWidth;
      const larger = Math.min(across / box.width, (room.clientHeight - above) / box.height);
      svg.style.width = `${Math.floor(box.width * larger)}px`;
    }
    body.style.zoom = slide.classList.contains('near') ? 2 * by : by;
  }

  function scale() {
    return Math.min(innerWidth / 1920, innerHeight / 1080);
  }

  function place() {
    const by = scale();
    const [x, y] = [(innerWidth - 1920 * by) / 2, (innerHeight - 1080 * by) / 2];
    stage.style.transform = `translate(${x}px, ${y}px) scale(${by})`;
  }

  function show(number, moved = true) {
    at = Math.max(0, Math.min(slides.length - 1, number));
    slides.forEach((slide, n) => {
      slide.classList.toggle('shown', n === at);
      slide.inert = n !== at;
    });
    bar.style.width = `${(100 * (at + 1)) / slides.length}%`;
    count.textContent = `${at + 1} / ${slides.length}`;
    notes.innerHTML = slides[at].querySelector('aside').innerHTML;
    if (moved) history.replaceState(null, '', `#${at + 1}`);
  }

  const moves = {
    ArrowRight: () => show(at + 1), PageDown: () => show(at + 1), ' ': () => show(at + 1),
    Enter: () => show(at + 1), ArrowLeft: () => show(at - 1), PageUp: () => show(at - 1),
    Backspace: () => show(at - 1), Home: () => show(0), End: () => show(slides.length - 1),
    z: () => { slides[at].classList.toggle('near'); fit(slides[at]); },
    n: () => { notes.hidden = !notes.hidden; },
    f: () => (document.fullscreenElement ? document.exitFullscreen()
      : document.documentElement.requestFullscreen()),
  };
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest('.gf-steps')) return; // the figure's own buttons
    const move = moves[event.key] ?? moves[event.key.toLowerCase()];
    if (move === undefined) return;
    event.preventDefault();
    move();
  });
  addEventListener('click', (event) => {
    if (event.target.closest('.gf-steps, #notes, a, summary') || getSelection().toString()) return;
    show(event.clientX < innerWidth / 3 ? at - 1 : at + 1);
  });
  let touched = null;
  addEventListener('touchstart', (event) => { touched = event.changedTouches[0]; });
  addEventListener('touchend', (event) => {
    if (touched === null) return;
    const [x, y] = ['clientX', 'clientY'].map((k) => event.changedTouches[0][k] - touched[k]);
    if (Math.abs(x) > 50 && Math.abs(x) > 2 * Math.abs(y)) {
      event.preventDefault(); // a swipe is not a click too
      show(at + (x < 0 ? 1 : -1));
    }
    touched = null;
  }, { passive: false });
  addEventListener('resize', place);
  addEventListener('hashchange', () => show(Number(location.hash.slice(1)) - 1, false));
  document.documentElement.classList.remove('no-script');
  place();
  slides.forEach(fit);
  document.fonts.ready.then(() => slides.forEach(fit));
  show((Number(location.hash.slice(1)) || 1) - 1, false);
})();
