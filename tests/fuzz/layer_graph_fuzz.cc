#include "mptune/profiler/formats/layer_graph.h"

#include "mptune/profiler/base/error.h"
#include "mptune/tests/fuzz/sound_profile.h"
#include "mptune/tests/support/layer_chain.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mptune::TextInput input = mptune::text_in_memory(reinterpret_cast<const char*>(data), size);
  try {
    const mptune::Profile graph = mptune::read_layer_graph(input);
    if (!mptune::testing::is_sound(graph) || !mptune::testing::is_sound(mptune::layer_chain(graph))) std::abort();
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  return 0;
}
