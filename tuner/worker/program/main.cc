#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <system_error>

#include "profiler/base/activity.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/library_message.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/device_worker.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/host/worker_death.h"
#include "tuner/worker/program/ranks.h"
#include "tuner/worker/program/requests.h"

namespace {

using namespace mptune;
using namespace mptune::tuner;

int descriptor(int argc, char** argv, const char* option) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], option) == 0) return std::atoi(argv[i + 1]);
  return -1;
}

std::string read_line(int fd) {
  std::string line;
  char buffer[65536];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) line.append(buffer, as_index(n));
  return line.substr(0, line.find('\n'));
}

void write_all(int fd, std::string line) {
  line += '\n';
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = write(fd, line.data() + done, line.size() - done);
    if (n <= 0) _exit(static_cast<int>(ExitCode::terminated));  // mptune has ended
    done += as_index(n);
  }
}

struct Dispatch {
  const Replies& reply;
  void operator()(const DescribeRequest& request) const { describe(request, reply); }
  void operator()(const MeasureRequest& request) const { measure(request, reply); }
  void operator()(const SeriesRequest& request) const { run_series(request, reply); }
  void operator()(const RecordRequest& request) const { record(request, reply); }
  void operator()(const TrainRequest& request) const { train(request, reply); }
  void operator()(const DoctorRequest& request) const { diagnose(request, reply); }
  void operator()(const CheckRequest& request) const { check(request, reply); }
  void operator()(const StoreRequest& request) const { keep_store(request, reply); }
  void operator()(const ServeRequest& request) const { serve(request, reply, run_for_rank_0); }
  void operator()(const EndRanksRequest& request) const { end_ranks(request, reply); }
  static void run_for_rank_0(const Request& request);
};

/// Runs before the request uses LibTorch. Missing devices are reported when the device is made.
void prepare(const TrainingSetup& setup) {
  const bool gpus =
      std::any_of(setup.devices.begin(), setup.devices.end(), [](const auto& name) { return device_kind(name) == DeviceSpec::Kind::cuda; });
  if (!gpus) return;
  try {
    prepare_gpus();
  } catch (const Error&) {
  }
}

/// Runs a request of rank 0 and sends no replies: rank 0 learns all that it wants to know from its own worker.
void Dispatch::run_for_rank_0(const Request& request) {
  std::visit([](const auto& any) { prepare(any.setup); }, request);
  const Replies nobody = [](const Reply&) {};
  Request own = request;
  if (auto* measuring = std::get_if<MeasureRequest>(&own)) measuring->started_s = 0;  // rank 0 may have another clock
  std::visit(Dispatch{nobody}, own);
}

/// Says where the exception came from: " in the forward of layer 'a'".
std::string in_activity() {
  const std::string text = activity_left_by_exception();
  return text.empty() ? "" : " in " + text;
}

/// Ends the process, since a GPU that failed fails in all that follows. mptune reads its last line (death_of).
[[noreturn]] void end_for(const std::string& error) {
  std::fprintf(stderr, "%s\n", library_message(error).c_str());
  std::abort();
}

/// Ends the process for an exception that can't be caught, such as a GPU's error in a destructor.
[[noreturn]] void end_for_uncaught() {
  try {
    if (const std::exception_ptr uncaught = std::current_exception()) std::rethrow_exception(uncaught);
  } catch (const c10::AcceleratorError& error) {
    end_for(profiler::first_gpu_error(error));
  } catch (const c10::Error& error) {
    end_for(error.what_without_backtrace());
  } catch (const std::exception& error) {
    end_for(error.what());
  } catch (...) {
    end_for("an exception of an unknown type");
  }
  std::abort();
}

/// Turns what a request throws into the message that ends it.
Reply answer(const std::string& line, const Replies& reply) {
  std::string plug_in;
  try {
    const auto request = decode_request(line);
    std::visit([](const auto& any) { prepare(any.setup); }, request);
    plug_in = std::visit([](const auto& any) { return plug_in_of(any.setup.model); }, request);
    std::visit(Dispatch{reply}, request);
    return Done{};
  } catch (const PlanFailed& error) {
    return Failed{error.problem(), error.where(), error.remedy(), static_cast<int>(error.code()), error.outcome()};
  } catch (const Error& error) {
    return Failed{error.problem(), error.where(), error.remedy(), static_cast<int>(error.code())};
  } catch (const c10::OutOfMemoryError& error) {
    return Failed{library_message(error.what_without_backtrace()), "worker", kNeedLessMemory, static_cast<int>(ExitCode::infeasible),
                  OutOfMemory{}};
  } catch (const c10::AcceleratorError& error) {
    end_for(profiler::first_gpu_error(error));
  } catch (const c10::Error& error) {
    return Failed{library_message(error.what_without_backtrace()), "worker",
                  "check --input, --batch and --data against the model, and the code of its layers", static_cast<int>(ExitCode::usage)};
  } catch (const std::bad_alloc&) {
    return Failed{"the host ran out of memory", "worker", kNeedLessMemory, static_cast<int>(ExitCode::infeasible), OutOfMemory{}};
  } catch (const std::system_error& error) {
    return Failed{std::string("the system refused: ") + error.what(), "worker",
                  "free memory and processes, or raise their limits (ulimit -a)", static_cast<int>(ExitCode::environment)};
  } catch (const std::exception& error) {
    if (!plug_in.empty())
      return Failed{library_message(error.what()) + in_activity(), plug_in, "correct the code of the plug-in's layers",
                    static_cast<int>(ExitCode::usage)};
    return Failed{error.what(), "worker", "this is a bug: report the command and mptune --version", static_cast<int>(ExitCode::internal)};
  }
}

}  // namespace

int main(int argc, char** argv) {
  install_cpu_accounting();
  std::set_terminate(end_for_uncaught);
  std::signal(SIGPIPE, SIG_IGN);  // if another rank or mptune ends, writing fails with an error
  std::signal(SIGXFSZ, SIG_IGN);  // at the limit on the size of files, writing fails, and the program goes on
  const int request_fd = descriptor(argc, argv, "--request-fd");
  const int reply_fd = descriptor(argc, argv, "--reply-fd");
  if (request_fd < 0 || reply_fd < 0) {
    std::fputs("mptune-worker is started by mptune; run mptune --help\n", stderr);
    return static_cast<int>(ExitCode::usage);
  }
  publish_activities(descriptor(argc, argv, "--activity-fd"));
  std::mutex mutex;
  const Replies reply = [&](const Reply& message) {
    const std::lock_guard lock(mutex);
    write_all(reply_fd, encode(message));
  };
  reply(Hello{kProtocolVersion, MPTUNE_VERSION, TORCH_VERSION, ""});
  const Reply last = answer(read_line(request_fd), reply);
  reply(last);
  const auto* failed = std::get_if<Failed>(&last);
  // Exits without LibTorch's slow tear-down: nothing is left to save.
  std::fflush(nullptr);
  _exit(failed != nullptr ? failed->exit_code : 0);
}
