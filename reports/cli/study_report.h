#pragma once

#include <string>
#include <vector>

#include "mptune/planner/search/search.h"
#include "mptune/reports/report.h"
#include "mptune/tuner/study/study.h"
#include "mptune/tuner/tune.h"

namespace mptune {

/// What of a tuning run is not in its trials; kept in the study so that `report` shows what `tune` showed.
struct StudySummary {
  std::vector<std::string> devices;
  std::vector<std::string> whole_machine;
  int batch = 0;
  double lower_bound_s = 0;
  double gap = 0;
  double elapsed_s = 0;
  std::string stop_reason;
  std::string run_command;
  KindFacts kinds;
};
void save_summary(Study& study, const StudySummary& summary);
/// Throws Error where the study has none: its tuning did not end yet.
[[nodiscard]] StudySummary load_summary(const Study& study);

/// What its plans were planned with. Throws Error where the study has none.
[[nodiscard]] Profile profile_of(const Study& study);

/// The recommendation again, from the stored trials of the final series. Throws Error where nothing was measured.
[[nodiscard]] Recommendation recommendation_of(const Study& study, const StudySummary& summary, const Profile& profile);

/// Everything `tune` and `report` show.
[[nodiscard]] StudyReport report_of_study(const Study& study, const StudySummary& summary, const Recommendation& recommendation,
                                          const Profile& profile);

}  // namespace mptune
