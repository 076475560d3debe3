#pragma once

#include <string>

namespace mptune {

/// What a library (LibTorch, Gloo, CUDA) says of a failure, as a clause of a message: its first line that is not blank, without the places
/// in its sources and without the words of its assertions. "no reason is given" where nothing is left.
[[nodiscard]] std::string library_message(const std::string& text);

}  // namespace mptune
