"""From a command line to a run: config, objects, training, summary. The only place that knows Hydra."""
