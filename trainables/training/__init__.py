"""Train and score: images, batches, crops, optimiser, the fit of one split, the learner of all."""
