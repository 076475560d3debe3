#pragma once

#include <string>
#include <vector>

namespace emulation {

/// The word that stands for __global__ in preprocessed code.
inline constexpr const char* kKernelWord = "emulated_kernel";

/// Preprocessed CUDA code as code of the host: behind each kernel that is extern "C", and at the end for each of `expressions` (names of
/// kernels that are not, such as "scaled<float>"), an entry of the image is made. Numbers of lines stay as they are.
[[nodiscard]] std::string host_code_of(const std::string& preprocessed, const std::vector<std::string>& expressions);

/// The first word of the code that the emulated NVRTC knows and does not support, such as __shared__; "" if there is none.
[[nodiscard]] std::string unsupported_word(const std::string& preprocessed);

/// The host compiler's messages about `program` as NVRTC writes errors: `name(3): error: identifier "x" is undefined`. With their count at
/// the end.
[[nodiscard]] std::string as_messages_of_nvrtc(const std::string& messages, const std::string& program);

}  // namespace emulation
