#include "tuner/worker/step_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "profiler/base/new_file.h"
#include "profiler/base/text.h"

namespace mptune::tuner {
namespace {

constexpr const char* kColumns = "step,epoch,samples,loss,step_s,validation_loss,accuracy,learning_rate\n";
constexpr auto kCommas = 7;

/// Leaves a value empty that is not known or not finite.
std::string cell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

/// Returns the rows of the steps before `first_step`. Where the machine stopped in the middle of a row, that row is left out.
std::string earlier_rows(const std::string& path, int first_step) {
  std::ifstream file(path);
  std::string rows;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto step = integer(line.substr(0, line.find(',')));
    if (step && *step < first_step && std::ranges::count(line, ',') == kCommas) rows += line + "\n";
  }
  return rows;
}

}  // namespace

void StepLog::begin(int first_step) {
  NewFile head(path_, ExitCode::environment);
  head << kColumns + (first_step > 0 ? earlier_rows(path_, first_step) : "");
  head.commit();
  file_.open(path_, std::ios::app);
}

void StepLog::add(const Trained& step, const std::optional<EpochFinished>& epoch) {
  if (path_.empty()) return;
  if (!file_.is_open()) begin(step.step);
  const EpochFinished ended = epoch.value_or(EpochFinished{});
  errno = 0;
  file_ << fmt::format("{},{},{},{},{},{},{},{}\n", step.step, step.epoch, step.samples, cell(step.loss), cell(step.step_s),
                       cell(ended.validation_loss), cell(ended.accuracy), cell(step.learning_rate))
        << std::flush;
  if (!file_) throw write_error(path_, errno != 0 ? errno : EIO, ExitCode::environment);
}

}  // namespace mptune::tuner
