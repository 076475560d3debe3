#pragma once

#include <string>

#include "profiler/trace/values/profile.h"
#include "tuner/trial/setup.h"

namespace mptune::tuner {

/// Returns all that must be the same for trials to be comparable, as JSON text: what is trained on which devices, model, input and
/// LibTorch.
/// `link` is as it was typed, `fingerprint` the model's. A resumed study is held to it.
[[nodiscard]] std::string study_identity(const TrainingSetup& setup, const std::string& link, const Fingerprint& fingerprint);

}  // namespace mptune::tuner
