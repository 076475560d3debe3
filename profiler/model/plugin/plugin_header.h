#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <torch/version.h>

#include "profiler/model/layers/model.h"

/// Describes a plug-in's build. Plain data that is read from the file before the plug-in is loaded.
/// MPTUNE_MODEL defines the object, with the name kPluginSymbol.
namespace mptune {

inline constexpr std::uint32_t kPluginAbi = 3;  ///< raised when a type of the plug-in interface changes without changing its size
inline constexpr const char* kPluginSymbol = "mptune_plugin_header";

/// The C++ standard library, whose types are part of the interface. LibTorch is built with libstdc++. Compilers that use it agree on the
/// rest (the C++ ABI of Itanium), whatever their number in __GXX_ABI_VERSION: g++ 12 says 1017, clang 1002.
#if defined(_LIBCPP_VERSION)
inline constexpr std::string_view kStandardLibrary = "libc++";
#elif defined(__GLIBCXX__)
inline constexpr std::string_view kStandardLibrary = "libstdc++";
#else
inline constexpr std::string_view kStandardLibrary = "unknown";
#endif

template <std::size_t N>
[[nodiscard]] constexpr std::array<char, N> plugin_text(std::string_view text) {
  std::array<char, N> result{};
  for (std::size_t i = 0; i < text.size() && i + 1 < N; ++i) result[i] = text[i];
  return result;
}

/// The first four members never change, so that any version can be recognised.
struct PluginHeader {
  std::array<char, 16> magic = plugin_text<16>("mptune plug-in");
  std::array<char, 16> version = plugin_text<16>(MPTUNE_VERSION);
  std::uint32_t bytes = sizeof(PluginHeader);
  std::uint32_t abi = kPluginAbi;
  std::array<char, 32> torch = plugin_text<32>(TORCH_VERSION);
  std::array<char, 12> standard_library = plugin_text<12>(kStandardLibrary);
#ifdef _GLIBCXX_USE_CXX11_ABI
  std::uint32_t string_abi = _GLIBCXX_USE_CXX11_ABI;
#else
  std::uint32_t string_abi = 0;
#endif
  std::array<std::uint32_t, 6> sizes = {sizeof(Model),      sizeof(ModelLayer), sizeof(SampleDescription),
                                        sizeof(RunContext), sizeof(Loss),       sizeof(BatchStatistics)};
  Model (*make)() = nullptr;
};

}  // namespace mptune

/// Makes a shared library a plug-in, a MODEL for every command of mptune: `factory` is a function `mptune::Model factory()`, called once
/// for every model that is needed, each time after torch::manual_seed(--seed). Once per library, outside of all namespaces:
///   add_library(net MODULE net.cc)
///   target_link_libraries(net PRIVATE mptune::mptune)
#define MPTUNE_MODEL(factory)                                                                      \
  extern "C" {                                                                                     \
  __attribute__((visibility("default"))) extern const ::mptune::PluginHeader mptune_plugin_header; \
  constinit const ::mptune::PluginHeader mptune_plugin_header{.make = (factory)};                  \
  }                                                                                                \
  static_assert(true)
