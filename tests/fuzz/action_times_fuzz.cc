#include <cstdlib>

#include "profiler/base/error.h"
#include "profiler/trace/formats/action_times.h"
#include "tests/fuzz/sound.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mptune::profiler::TextInput input = mptune::profiler::text_in_memory(reinterpret_cast<const char*>(data), size);
  try {
    const bool is_json = size > 0 && (data[0] == '{' || data[0] == '[');
    const mptune::profiler::ActionTimeline read =
        mptune::profiler::timeline_of(is_json ? mptune::profiler::read_action_json(input, 0) : mptune::profiler::read_action_table(input));
    if (!mptune::testing::is_sound(read.trace)) std::abort();
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  return 0;
}
