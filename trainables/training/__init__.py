"""Train and score: the step, the optimiser, the fit of one split, the learner of all."""
