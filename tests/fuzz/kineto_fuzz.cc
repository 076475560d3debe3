#include <cstdlib>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/formats/kineto.h"
#include "mptune/tests/fuzz/sound.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mptune::TextInput input = mptune::text_in_memory(reinterpret_cast<const char*>(data), size);
  try {
    if (!mptune::testing::is_sound(mptune::read_kineto(input))) std::abort();
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  return 0;
}
