#pragma once

#include <memory>
#include <string>

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/source_range.h>

namespace mptune::profiler {

/// Checks that compiling a source of a TorchScript archive runs nothing of it. LibTorch evaluates default arguments and constants of
/// classes while it compiles: they must be literals. Throws Error (usage) that names `path` and the line.
void check_script_source(const std::shared_ptr<torch::jit::Source>& source, const std::string& path);

/// Checks that all compiled functions only compute: operators that refusal_of_operator() permits, control flow, and calls of functions of
/// the same unit. Throws Error (usage) that names `path`, the line and the operator.
void check_script_operators(torch::jit::CompilationUnit& unit, const std::string& path);

}  // namespace mptune::profiler
