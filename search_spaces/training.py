"""What the sources say of training itself, and our values for sketches."""

WEIGHT_DECAY = 1e-4  # the thesis's code; its text prints none
IMAGES_PER_CLASS = 5  # in a balanced batch: inferred from the thesis's text on multi_similarity
EMBEDDING_SIZE = 64  # the smallest of thesis tables 6 to 10

# Our choice for a small network on 28 x 28 drawings, trained from nothing: no source has one.
SKETCHES_LEARNING_RATE = 2e-3
SKETCHES_BATCH = 50
