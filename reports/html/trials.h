#pragma once

#include <string>

#include "reports/values/report.h"

namespace mptune::reports {

/// Shows every measured trial as a dot over its prediction, and the error of the recommended plan's prediction.
[[nodiscard]] std::string prediction_content(const StudyReport& report);
/// Shows the best step so far, then a row per trial, to be sorted and filtered; failures have their cause.
[[nodiscard]] std::string trials_content(const StudyReport& report);

}  // namespace mptune::reports
