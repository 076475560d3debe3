#include <cstdlib>

#include "profiler/base/error.h"
#include "profiler/trace/formats/pipeline_timeline.h"
#include "tests/fuzz/sound.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mptune::profiler::TextInput input = mptune::profiler::text_in_memory(reinterpret_cast<const char*>(data), size);
  try {
    if (!mptune::testing::is_sound(mptune::profiler::read_pipeline_timeline(input))) std::abort();
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  return 0;
}
