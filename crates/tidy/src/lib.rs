//! Tests only: walls between rooms, sizes, leftovers.
