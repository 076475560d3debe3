#pragma once

#include "tuner/runtime/training/training_state.h"

namespace mptune::tuner {

/// Returns a state as a list of tensors, for another rank. The first tensor, of bytes, says what the others are.
[[nodiscard]] Tensors state_tensors(const TrainingState& state);
/// Returns the state from the tensors of state_tensors(). Throws Error (internal) for other tensors.
[[nodiscard]] TrainingState state_from(const Tensors& tensors);

}  // namespace mptune::tuner
