#pragma once

#include <string>

#include "mptune/profiler/model/model.h"
#include "mptune/profiler/trace/model_text.h"

/// Models in files, told apart by content: plug-ins (ELF), exported programs and TorchScript (zip).
namespace mptune {

/// The row of a file in the table of models: its stem and what it is.
[[nodiscard]] BuiltinModel describe_model_file(const ModelText& text);

/// The model in a file, called by the file's stem. Samples are those of `source.data`, else of `input`, else the model's own; what is not
/// known of the target is found by running two samples. Throws Error (usage) for what is no file, a file that is no model, and all that
/// load_plugin, load_exported and load_script refuse.
[[nodiscard]] Model load_model_file(const ModelText& text, const std::string& input, std::optional<std::uint64_t> seed,
                                    const StepSource& source);

}  // namespace mptune
