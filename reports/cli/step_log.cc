#include "reports/cli/step_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <utility>

#include "profiler/base/new_file.h"
#include "profiler/base/text.h"

namespace mptune::reports {
namespace {

constexpr const char* kColumns = "step,epoch,samples,loss,step_s,validation_loss,accuracy,learning_rate\n";

/// What is not known or not finite is left empty.
std::string cell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

/// Rows of the steps before `first_step`.
std::string earlier_rows(const std::string& path, int first_step) {
  std::ifstream file(path);
  std::string rows;
  for (std::string line; std::getline(file, line);) {
    const auto step = integer(line.substr(0, line.find(',')));
    if (step && *step < first_step) rows += line + "\n";
  }
  return rows;
}

}  // namespace

void StepLog::begin(int first_step) {
  const std::string rows = first_step > 0 ? earlier_rows(path_, first_step) : "";
  file_.open(path_, std::ios::trunc);
  write(kColumns + rows);
}

void StepLog::write(const std::string& text) {
  errno = 0;
  file_ << text << std::flush;
  if (!file_) throw write_error(path_, errno != 0 ? errno : EIO, ExitCode::environment);
}

void StepLog::add(const tuner::Trained& step) {
  if (path_.empty()) return;
  if (!file_.is_open()) begin(step.step);
  finish();
  step_ = step;
}

void StepLog::add(const tuner::EpochFinished& epoch) {
  epoch_ = epoch;
}

void StepLog::finish() {
  if (!step_) return;
  const tuner::EpochFinished epoch = std::exchange(epoch_, {});
  const tuner::Trained step = *std::exchange(step_, std::nullopt);
  write(fmt::format("{},{},{},{},{},{},{},{}\n", step.step, step.epoch, step.samples, cell(step.loss), cell(step.step_s),
                    cell(epoch.validation_loss), cell(epoch.accuracy), cell(step.learning_rate)));
}

}  // namespace mptune::reports
