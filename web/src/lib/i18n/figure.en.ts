export const figureEn = {
  'figure.steps': 'Steps of the figure',
  'figure.play': 'Play',
  'figure.pause': 'Pause',
  'figure.back': 'One step back',
  'figure.next': 'One step on',
  'figure.at': 'step {step} of {total}',
};
