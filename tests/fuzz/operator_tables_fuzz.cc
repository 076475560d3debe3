#include "profiler/trace/formats/operator_tables.h"

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/trace/formats/bandwidth_table.h"
#include "tests/fuzz/sound_profile.h"

namespace {

void read_bandwidths(const char* data, std::size_t size) {
  mptune::profiler::TextInput input = mptune::profiler::text_in_memory(data, size);
  for (const mptune::LinkPoint& time : mptune::profiler::read_bandwidth_table(input))
    if (!(time.seconds > 0) || !(time.bytes >= 1)) std::abort();
}

// An empty line separates the tables of two micro-batch sizes.
void read_tables(const std::string& text) {
  const std::size_t middle = std::min(text.find("\n\n"), text.size());
  std::map<int, std::vector<mptune::profiler::OperatorRow>> tables;
  for (const std::string& part : {text.substr(0, middle), text.substr(middle)}) {
    mptune::profiler::TextInput input = mptune::profiler::text_in_memory(part.data(), part.size());
    if (!part.empty()) tables[tables.empty() ? 1 : 4] = mptune::profiler::read_operator_table(input);
  }
  if (!mptune::testing::is_sound(mptune::profiler::profile_of_operators(tables, "memory"))) std::abort();
}

}  // namespace

// The first character selects a table of operators or of bandwidths.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    if (size > 0 && text[0] >= '0' && text[0] <= '9')
      read_bandwidths(text.data(), size);
    else
      read_tables(text);
  } catch (const mptune::Error&) {
    // A refusal is what broken input gets.
  }
  return 0;
}
