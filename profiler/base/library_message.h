#pragma once

#include <string>

namespace mptune {

/// Turns what a library (LibTorch, Gloo, CUDA) says of a failure into a clause of a message: its first line that is not blank, without the
/// places in its sources and without the words of its assertions. Returns "no reason is given" if nothing is left.
[[nodiscard]] std::string library_message(const std::string& text);

}  // namespace mptune
