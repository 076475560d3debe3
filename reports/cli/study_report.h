#pragma once

#include <string>
#include <vector>

#include "mptune/planner/search/search.h"
#include "mptune/reports/report.h"
#include "mptune/tuner/study/study.h"
#include "mptune/tuner/tune.h"

namespace mptune {

/// Throws Error where the study has none: its tuning did not end yet.
[[nodiscard]] StudySummary summary_of(const Study& study);

/// What its plans were planned with. Throws Error where the study has none.
[[nodiscard]] Profile profile_of(const Study& study);

/// The recommendation again, from the stored trials of the final series. Throws Error where nothing was measured.
[[nodiscard]] Recommendation recommendation_of(const Study& study, const StudySummary& summary, const Profile& profile);

/// Everything `tune` and `report` show.
[[nodiscard]] StudyReport report_of_study(const Study& study, const StudySummary& summary, const Recommendation& recommendation,
                                          const Profile& profile);

}  // namespace mptune
