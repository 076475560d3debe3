#pragma once

#include <string>

#include <torch/csrc/jit/api/module.h>

namespace mptune::profiler {

/// Reads the module of a TorchScript archive. Unlike torch::jit::load, it runs nothing of the file: neither `__setstate__` of a class nor
/// expressions in place of default arguments and constants; and every tensor is compared with the record that holds it.
/// The module's code may only compute (refusal_of_operator); what it prints is dropped, in the whole process.
///
/// Requires: check_script_archive() accepts the file. Throws Error (usage) for what is refused, std::exception of LibTorch for what
/// LibTorch can't read.
[[nodiscard]] torch::jit::Module read_script(const std::string& path);

}  // namespace mptune::profiler
