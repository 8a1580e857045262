//! Every rule of the states of nodes and versions, and of what administrators do.
