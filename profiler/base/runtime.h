#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mptune {

/// The program that executes a plan: this project's runtime, torch.distributed.pipelining, Megatron-LM or DeepSpeed. They differ in when a
/// stage sends and receives, and in which schedules they have.
enum class Runtime : std::uint8_t { mptune, torch, megatron, deepspeed };

/// The names in plan files and options.
inline constexpr std::array kRuntimeNames = {"mptune", "torch", "megatron", "deepspeed"};

[[nodiscard]] constexpr const char* name_of(Runtime runtime) {
  return kRuntimeNames[static_cast<std::size_t>(runtime)];
}
/// Returns nullopt for another name.
[[nodiscard]] constexpr std::optional<Runtime> runtime_of(std::string_view name) {
  for (const Runtime runtime : {Runtime::mptune, Runtime::torch, Runtime::megatron, Runtime::deepspeed})
    if (name == name_of(runtime)) return runtime;
  return std::nullopt;
}

}  // namespace mptune
