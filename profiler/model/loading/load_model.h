#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/model/builtin/builtin_models.h"
#include "profiler/model/layers/loaded_model.h"
#include "profiler/trace/values/model_text.h"

/// Models in files, told apart by content: plug-ins (ELF), exported programs and TorchScript (zip).
namespace mptune {

/// Returns the row of a file in the table of models: its stem and what it is.
[[nodiscard]] BuiltinModel describe_model_file(const ModelText& text);

/// What else of the step decides what is loaded; "" where the user did not say.
struct StepSource {
  std::string loss = {};  ///< `--loss`; "" is the model's own
  std::string data = {};  ///< `--data`, a file for load_batch; it gives a model from a file its shapes
};

/// Loads a MODEL: a built-in model (builtin_models() lists them), as its name or NAME:KEY=VALUE,... with parameters, e.g.
/// "transformer:d=256,layers=8"; or a file (a plug-in, an exported program or TorchScript, told apart by content). `input` is `--input
/// SHAPE[:DTYPE]` ("" is the model's own). `seed` fixes the initial weights. Without a seed, for callers that need only names, shapes and
/// counts, the weights of built-in models stay uninitialised and no forward of a file's model runs: the target may then be unknown. Throws
/// Error (usage) for an unknown model (lists the known ones), an unknown or nonsensical parameter, a shape that does not fit, and a file
/// that is not a model.
[[nodiscard]] LoadedModel load_model(const std::string& text, const std::string& input, std::optional<std::uint64_t> seed,
                                     const StepSource& source = {});

}  // namespace mptune
