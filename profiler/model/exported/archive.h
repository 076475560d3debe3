#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "profiler/model/program/exported_program.h"
#include "profiler/model/program/exported_reference.h"

namespace mptune::profiler {

/// Contents of a `.pt2` file of torch.export.save: the program, and its tensors by full name. Tensors of one record share memory (tied
/// weights). Reading runs no code of the file and allocates no more than its size.
struct ExportedArchive {
  ExportedProgram program;
  std::map<std::string, at::Tensor> tensors;   ///< parameters, buffers, constants
  bool without_weights = false;                ///< exported from a meta model: the tensors are uninitialised
  std::vector<at::Tensor> sample_inputs;       ///< example tensors of the export, in the order of its inputs; may be empty
  std::optional<ExportedReference> reference;  ///< extra/mptune.json, written by mptune_export.py
};

/// True if the file is an archive of torch.export.save, of any version.
[[nodiscard]] bool is_exported_archive(const std::string& path);

/// Throws Error with a remedy if the file is missing, truncated or another kind of archive (TorchScript, torch.save, AOTInductor, an older
/// layout), has several models, records that are missing or shorter than their tensors, or a damaged reference.
[[nodiscard]] ExportedArchive read_exported_archive(const std::string& path);

}  // namespace mptune::profiler
