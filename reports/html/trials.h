#pragma once

#include <string>

#include "reports/report.h"

namespace mptune::reports {

/// Every measured trial as a dot over its prediction, and the error of the recommended plan's.
[[nodiscard]] std::string prediction_content(const StudyReport& report);
/// Best step so far, then a row per trial, to be sorted and filtered; failures with their cause.
[[nodiscard]] std::string trials_content(const StudyReport& report);

}  // namespace mptune::reports
