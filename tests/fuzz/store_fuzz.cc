#include <unistd.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "profiler/base/error.h"
#include "profiler/trace/store/store.h"
#include "tests/support/hand_profile.h"
#include "tests/support/hand_trace.h"

namespace {

const std::string& scratch() {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("mptune-fuzz-store-" + std::to_string(getpid()) + ".sqlite")).string();
  return path;
}

// A recording of mptune or an export of Nsight Systems, in small pages so that most bytes matter.
std::string trace_file(bool ours) {
  mptune::profiler::write_recording({.trace = mptune::testing::gpu_trace(), .profile = mptune::testing::hand_profile()}, scratch(), true);
  {
    SQLite::Database database(scratch(), SQLite::OPEN_READWRITE);
    std::string drops = ours ? "" : "DROP TABLE MPTUNE_META;";
    SQLite::Statement names(database, "SELECT name FROM sqlite_master WHERE name LIKE 'ENUM%'");
    while (names.executeStep()) drops += "DROP TABLE " + names.getColumn(0).getString() + ";";
    names.reset();
    database.exec(drops + "PRAGMA page_size = 512; VACUUM");
  }
  std::ifstream file(scratch(), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first byte selects how to use the rest: as a file, or as changes {place, place, place, value} of a trace file.
std::string file_of(const std::uint8_t* data, std::size_t size) {
  static const std::array<std::string, 2> files{trace_file(true), trace_file(false)};
  if (size == 0) return {};
  if (data[0] % 3 == 2) return {data + 1, data + size};
  std::string file = files[data[0] % 3];
  for (std::size_t i = 1; i + 3 < size; i += 4) {
    const std::size_t place = data[i] | std::size_t{data[i + 1]} << 8 | std::size_t{data[i + 2]} << 16;
    file[place % file.size()] = static_cast<char>(data[i + 3]);
  }
  return file;
}

}  // namespace

// The reader of trace files: any bytes end in Error or in a recording that can be written and read again unchanged.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = file_of(data, size);
  std::ofstream(scratch(), std::ios::binary | std::ios::trunc).write(file.data(), static_cast<std::streamsize>(file.size()));
  mptune::profiler::Recording recording;
  try {
    recording = mptune::profiler::read_recording(scratch());
  } catch (const mptune::Error&) {
    std::filesystem::remove(scratch());
    return 0;
  }
  mptune::profiler::write_recording(recording, scratch(), true);
  const mptune::profiler::Recording again = mptune::profiler::read_recording(scratch());
  std::filesystem::remove(scratch());
  if (again.trace != recording.trace || again.profile != recording.profile || again.plan_json != recording.plan_json) std::abort();
  return 0;
}
