#include <algorithm>
#include <cstdlib>

#include "profiler/base/error.h"
#include "profiler/trace/formats/placement_json.h"

namespace {

bool is_sound(const mptune::profiler::PlacementGraph& graph) {
  const auto known = [&](int node) { return node >= 0 && node < static_cast<int>(graph.nodes.size()); };
  for (const mptune::profiler::PlacementNode& node : graph.nodes)
    if (node.device_ns < 0 || node.host_ns < 0 || node.bytes < 0 || node.colocated < -1) return false;
  for (const mptune::profiler::PlacementTensor& tensor : graph.tensors)
    if (!known(tensor.producer) || tensor.copy_ns < 0 || !std::all_of(tensor.consumers.begin(), tensor.consumers.end(), known))
      return false;
  return !graph.nodes.empty() && graph.devices >= 0 && graph.hosts >= 0 && graph.devices + graph.hosts > 0 && graph.memory_bytes >= 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mptune::profiler::TextInput input = mptune::profiler::text_in_memory(reinterpret_cast<const char*>(data), size);
  try {
    if (!is_sound(mptune::profiler::read_placement_json(input))) std::abort();
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  return 0;
}
