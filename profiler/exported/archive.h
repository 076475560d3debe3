#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "mptune/profiler/program/exported_program.h"

namespace mptune {

/// A `.pt2` file that torch.export.save wrote, read as a whole: the program and its tensors by full name. Tensors of one record share their
/// memory, so tied weights are one. Runs nothing of the file; allocates no more than its size.
struct ExportedArchive {
  ExportedProgram program;
  std::map<std::string, at::Tensor> tensors;  ///< parameters, buffers, constants
  bool without_weights = false;               ///< made from a meta model: the tensors are uninitialised
  std::vector<at::Tensor> sample_inputs;      ///< the tensors that the model was exported with, in the order of its inputs; may be empty
  std::string reference;                      ///< extra/mptune.json, which mptune_export.py leaves; "" without one
};

/// True if the file is an archive that torch.export.save wrote, of any layout or age.
[[nodiscard]] bool is_exported_archive(const std::string& path);

/// Throws Error: missing, truncated, another kind of archive (TorchScript, torch.save, AOTInductor, an older layout), several models,
/// records that are missing or shorter than their tensors; each says what to do.
[[nodiscard]] ExportedArchive read_exported_archive(const std::string& path);

}  // namespace mptune
