#pragma once

#include <string>

#include "mptune/reports/report.h"
#include "mptune/tuner/stored_recommendation.h"

namespace mptune {

/// All that `tune` and `report` show.
[[nodiscard]] StudyReport report_of_study(const Study& study, const StudySummary& summary, const Recommendation& recommendation,
                                          const Profile& profile);

/// The report of a study folder. Throws Error where its tuning did not end yet.
[[nodiscard]] StudyReport read_study_report(const std::string& folder);

}  // namespace mptune
