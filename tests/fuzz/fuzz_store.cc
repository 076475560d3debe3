#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "mptune/profiler/store/store.h"
#include "mptune/profiler/trace/error.h"

// The reader of trace files: any bytes end in Error or in a recording that can be written and read again unchanged.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("mptune-fuzz-store-" + std::to_string(getpid()) + ".sqlite")).string();
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  mptune::Recording recording;
  try {
    recording = mptune::read_recording(path);
  } catch (const mptune::Error&) {
    std::filesystem::remove(path);
    return 0;
  }
  mptune::write_recording(recording, path, true);
  const mptune::Recording again = mptune::read_recording(path);
  std::filesystem::remove(path);
  if (again.trace != recording.trace || again.profile != recording.profile || again.plan_json != recording.plan_json) std::abort();
  return 0;
}
