#pragma once

#include "profiler/trace/values/profile.h"
#include "tuner/study/recommend/recommend.h"
#include "tuner/study/store/study.h"

namespace mptune::tuner {

/// Returns the study's summary. Throws Error where it has none, because its tuning did not end yet.
[[nodiscard]] StudySummary summary_of(const Study& study);

/// Returns the profile that the study's plans were searched with. Throws Error where the study has none.
[[nodiscard]] Profile profile_of(const Study& study);

/// Makes the recommendation again, from the stored trials of the final series. Throws Error where nothing was measured.
[[nodiscard]] Recommendation recommendation_of(const Study& study, const StudySummary& summary, const Profile& profile);

}  // namespace mptune::tuner
