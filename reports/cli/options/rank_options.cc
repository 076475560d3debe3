#include "reports/cli/options/rank_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "planner/plan/file/plan_json.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "reports/cli/program/option_values.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/rank_launcher.h"
#include "tuner/worker/host/rank_service.h"

namespace mptune::reports {
namespace {

constexpr int kMostLocalRanks = 256;

std::string ranks_text(int count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

/// The words of this command, with the path of the program.
std::vector<std::string> own_command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> words = split(text.substr(0, text.size() - 1), '\0');
  words.at(0) = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

/// Throws the error that a rank has printed as JSON.
[[noreturn]] void throw_error_of(const tuner::RanksEnd& end) {
  const std::string rank = fmt::format("rank {}", end.rank);
  const planner::Json printed = planner::Json::parse(end.output, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* field, const std::string& otherwise) {
    const auto found = printed.is_object() && printed.contains("error") ? printed["error"].find(field) : planner::Json::const_iterator();
    return printed.is_object() && printed.contains("error") && found != printed["error"].end() ? found->get<std::string>() : otherwise;
  };
  throw Error(text("what", "it has failed"), rank + ", " + text("where", "mptune"), text("remedy", "start the command again"),
              static_cast<ExitCode>(end.exit_code));
}

[[noreturn]] void throw_killed(const tuner::RanksEnd& end, const std::string& model) {
  const bool stopped = end.killed == tuner::RanksEnd::Killed::stopped;
  throw Error(
      fmt::format("rank {} {}", end.rank, stopped ? "was stopped by a signal and did not go on for 10 s" : "did not end after rank 0"),
      model,
      stopped ? "start the command again: run with --checkpoint and tune --resume go on where they ended"
              : "the result is whole; see whether that rank was stopped",
      ExitCode::environment);
}

/// Starts the ranks of this command on this machine. Rank 0 prints the result.
int start_ranks(const std::string& model, int ranks) {
  const std::vector<std::string> words = own_command_line();
  std::vector<std::string> of_others = words;
  of_others.emplace_back("--json");  // for an error that can be told in the words of this command
  const tuner::RanksEnd end = tuner::run_ranks(words, of_others, ranks, tuner::interrupt_flag());
  if (end.killed != tuner::RanksEnd::Killed::no && tuner::interrupt_flag() == 0) throw_killed(end, model);
  if (end.signal != 0 && tuner::interrupt_flag() == 0)
    throw Error(fmt::format("rank {} was ended by signal {} ({})", end.rank, end.signal, strsignal(end.signal)), model,
                "start the command again: run with --checkpoint and tune --resume go on where they ended", ExitCode::environment);
  if (!end.output.empty()) throw_error_of(end);
  return end.exit_code;
}

}  // namespace

void add_rank_options(CLI::App& command, DeviceOptions& options) {
  options.ranks = true;
  command
      .add_option("--ranks", options.rank_count,
                  "processes that work together, started here: devices are then named 0@cpu:0,1@cpu:1; default: torchrun's, or one")
      ->type_name("N")
      ->group(kDeviceGroup);
  CLI::Option* reduce =
      command.add_option("--reduce", options.reduce,
                         "how gradients of replicas on several ranks are added up: ordered, bit for bit as in one process, "
                         "or all-reduce, equal within rounding; default: ordered");
  offer_values(*reduce->type_name("NAME")->group(kDeviceGroup), {kReduceNames.begin(), kReduceNames.end()});
}

int with_ranks(const DeviceOptions& options, const std::string& model, const std::function<int(const RankPlace&)>& work) {
  const RankPlace place = rank_place();
  const auto ranks = static_cast<int>(parse_whole(options.rank_count, "--ranks", 1, kMostLocalRanks, 0));
  if (ranks > 1 && place.ranks == 1) return start_ranks(model, ranks);
  if (ranks > 0 && ranks != place.ranks)
    throw Error(fmt::format("{} were started, not {}", ranks_text(place.ranks), ranks), "--ranks", "leave it out under torchrun");
  if (place.ranks == 1) return work(place);
  if (place.rank > 0) return tuner::serve_ranks();
  tuner::RankLead lead(place);
  const int exit_code = work(place);
  lead.end(exit_code);
  return exit_code;
}

void check_ranks(const std::vector<std::string>& devices, const RankPlace& place) {
  std::set<int> ranks;
  for (const std::string& device : devices) {
    if (!names_rank(device) && place.ranks > 1)
      throw Error(fmt::format("there are {}, and the device does not say which of them has it", ranks_text(place.ranks)), device,
                  fmt::format("put the rank before its name: 0@{}", device));
    ranks.insert(parse_device(device).rank);
  }
  if (*ranks.rbegin() >= place.ranks)
    throw Error(fmt::format("there are devices of {}, and {}", ranks_text(*ranks.rbegin() + 1),
                            place.ranks == 1 ? "this process was started alone" : "only " + ranks_text(place.ranks)),
                "--devices", fmt::format("give --ranks {}, or start as many with torchrun", *ranks.rbegin() + 1));
  const int first_without = static_cast<int>(std::ranges::count_if(ranks, [n = 0](int rank) mutable { return rank == n++; }));
  if (first_without == place.ranks) return;
  const bool fewer = first_without > *ranks.rbegin();
  throw Error(fmt::format("rank {} has no device", first_without), "--devices",
              "give each rank a device" + (fewer ? ", or start " + ranks_text(first_without) : ""));
}

void check_reduce(Reduce reduce, const std::vector<std::string>& devices) {
  if (reduce == Reduce::all_reduce && std::ranges::none_of(devices, names_rank))
    throw Error("one process has all devices, so that there is nothing to reduce between ranks", "--reduce",
                "leave it out, or say which rank has each device: --devices 0@cpu:0,1@cpu:1 --ranks 2");
}

}  // namespace mptune::reports
