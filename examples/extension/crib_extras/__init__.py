"""Extensions of toolcrib, one of each kind; docs/extending.md explains them."""
