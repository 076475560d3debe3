#pragma once

namespace mptune::tuner {

/// How the time of `tune` is shared out among its phases.
///
/// The rule: a phase may take its share of the time that is left when it begins. So one that took longer shortens those behind it, none
/// leaves them nothing, and all end with the budget.
///
/// | phase                     | share    | when its time is over                                                                      |
/// |---------------------------|----------|--------------------------------------------------------------------------------------------|
/// | start: load the model     | all      | mptune ends                                                                                |
/// | check the model's pieces  | 1/10     | comparisons that have not begun are left out; after 3/10 the worker is ended               |
/// | measure layers and links  | 1/4      | micro-batches between the smallest and the largest, the largest, other execution variants  |
/// |                           |          | and further links are left out; only the smallest may take all that is left: mptune ends   |
/// | search                    | 1/50     | the plans found so far are ranked; likewise 1/100 for a second search, 1/200 for an outlook |
/// | baselines and candidates  | the rest | no plan begins that would leave the last series no time                                    |
/// | last series               | the rest | no round begins that would not end in time                                                 |
/// | traces                    | the rest | at most 15 % of the budget is kept for them; a trace without time is a warning             |
///
/// Where mptune ends, it says what budget would do. A step that runs when the budget ends may end: the budget is exceeded by one step at
/// most, and by what ending a worker and writing the report take.
enum class Phase { check, measure, search, second_search, outlook };

struct PhaseTime {
  double share_s = 0;  ///< what the phase should take
  double most_s = 0;   ///< what it may take where the least that is of use takes longer
};

/// Of a phase that begins when so much of the budget is left [s].
[[nodiscard]] PhaseTime time_of(Phase phase, double left_s);

/// How long after the end of the budget a worker may go on that has no result yet: mptune then says what budget would do [s].
[[nodiscard]] double grace_without_result(double budget_s);

/// What a run that got to no trial knows of the time that an answer takes [s]; 0: not known.
struct AnswerNeeds {
  double ready_s = 0;          ///< before the first trial of a run that goes on with what the study keeps
  double worker_s = 0;         ///< a worker's start, until its first step
  double baseline_step_s = 0;  ///< of the fastest plan that cuts nothing
  double plan_step_s = 0;      ///< of the fastest plan
};

/// A budget with which a run that goes on compares the two plans: a trial of each, and a last series with as many rounds as an interval
/// needs, on a machine on which a half more time goes elsewhere. 0: the steps are not known.
[[nodiscard]] double enough_for_answer(const AnswerNeeds& needs);

/// The needs as far as the first pass over all layers tells them, of so many samples in so many seconds.
[[nodiscard]] AnswerNeeds needs_of_pass(int samples, double seconds, int batch, int devices, double worker_s);

}  // namespace mptune::tuner
