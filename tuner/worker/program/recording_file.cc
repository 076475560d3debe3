#include "tuner/worker/program/recording_file.h"

#include "profiler/base/new_file.h"
#include "profiler/base/temporary_folder.h"
#include "profiler/base/whole_file.h"

namespace mptune::tuner {
namespace {

constexpr std::int64_t kLargestRecording = std::int64_t{1} << 30;

}  // namespace

std::string file_of(const profiler::Recording& recording) {
  const TemporaryFolder folder;
  const std::string path = folder.file("recording.sqlite");
  profiler::write_recording(recording, path, false);
  return read_whole_file(path, kLargestRecording, "recording");
}

profiler::Recording recording_of(const std::string& file) {
  const TemporaryFolder folder;
  const std::string path = folder.file("recording.sqlite");
  NewFile out(path);
  out << file;
  out.commit();
  return profiler::read_recording(path);
}

}  // namespace mptune::tuner
