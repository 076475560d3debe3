// A worker that publishes what its threads do, and ends as MPTUNE_FAKE says.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "profiler/base/activity.h"
#include "tuner/worker/messages.h"

namespace {

using namespace mptune;

int descriptor(int argc, char** argv, const char* option) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], option) == 0) return std::atoi(argv[i + 1]);
  return -1;
}

void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void end_in_thread(const std::string& mode) {
  const Activity activity("the backward of layer", "bad");
  if (mode == "segv-in-thread") std::raise(SIGSEGV);
  if (mode == "abort-in-thread") std::abort();
  std::exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  publish_activities(descriptor(argc, argv, "--activity-fd"));
  const std::string hello = tuner::encode(tuner::Reply(tuner::Hello{})) + "\n";
  if (write(descriptor(argc, argv, "--reply-fd"), hello.data(), hello.size()) < 0) return 1;
  const std::string mode = std::getenv("MPTUNE_FAKE");
  if (mode == "stop") std::raise(SIGSTOP);
  constexpr double kPatience = 0.5;
  const Activity activity("the forward of layer", "spin", mode == "endless" ? kPatience : kPatienceSeconds);
  if (mode == "endless") sleep_for_ever();
  std::thread([&] { end_in_thread(mode); }).detach();
  sleep_for_ever();
}
