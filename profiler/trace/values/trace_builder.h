#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Gives names, threads and tags of a trace under construction their indices, each once.
/// Knows those that the trace has when the builder is made. Requires: nobody else adds any; the trace outlives the builder.
class TraceBuilder {
 public:
  explicit TraceBuilder(Trace& trace);

  [[nodiscard]] int name(const std::string& text);
  [[nodiscard]] int thread(const std::string& text);
  [[nodiscard]] int tag(const Tag& tag);

 private:
  using TagKey = std::tuple<int, int, int, int, int>;
  static TagKey key_of(const Tag& tag) { return {tag.step, tag.stage, tag.microbatch, tag.layer, tag.replica}; }

  Trace& trace_;
  std::unordered_map<std::string, int> names_;
  std::unordered_map<std::string, int> threads_;
  std::map<TagKey, int> tags_;
};

/// Adds kernels to a trace, those that are alike once. Requires: the list outlives it, and nobody else adds any.
class KernelIndex {
 public:
  explicit KernelIndex(std::vector<Kernel>& kernels) : kernels_(kernels) {}
  [[nodiscard]] std::int32_t of(const Kernel& kernel);

 private:
  struct Hash {
    std::size_t operator()(const Kernel& kernel) const;
  };
  std::vector<Kernel>& kernels_;
  std::unordered_map<Kernel, std::int32_t, Hash> known_;
};

/// Orders the events by their start, stably; launches and edges follow them.
void order_events(Trace& trace);
/// Orders the ranges by their start, stably.
void order_ranges(Trace& trace);

}  // namespace mptune::profiler
