#include "profiler/trace/formats/layer_graph.h"

#include "profiler/base/error.h"
#include "tests/fuzz/sound_profile.h"
#include "tests/support/layer_chain.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mptune::profiler::TextInput input = mptune::profiler::text_in_memory(reinterpret_cast<const char*>(data), size);
  try {
    const mptune::Profile graph = mptune::profiler::read_layer_graph(input);
    if (!mptune::testing::is_sound(graph) || !mptune::testing::is_sound(mptune::testing::layer_chain(graph))) std::abort();
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  return 0;
}
