#pragma once

#include <string>

#include "reports/values/report.h"
#include "tuner/study/stored_recommendation.h"

namespace mptune::reports {

/// Returns all that `tune` and `report` show.
[[nodiscard]] StudyReport report_of_study(const tuner::Study& study, const tuner::StudySummary& summary,
                                          const tuner::Recommendation& recommendation, const Profile& profile);

/// Returns the report of a study folder. Throws Error where its tuning did not end yet.
[[nodiscard]] StudyReport read_study_report(const std::string& folder);

}  // namespace mptune::reports
