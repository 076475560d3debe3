#pragma once

#include "tuner/training/training_state.h"

namespace mptune::tuner {

/// A state as a list of tensors, for another rank. The first one, of bytes, says what the others are.
[[nodiscard]] Tensors state_tensors(const TrainingState& state);
/// Throws Error (internal) for other tensors.
[[nodiscard]] TrainingState state_from(const Tensors& tensors);

}  // namespace mptune::tuner
