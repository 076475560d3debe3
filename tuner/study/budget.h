#pragma once

namespace mptune::tuner {

/// Shares out the time of `tune` among its phases.
///
/// The rule: a phase may take its share of the time that is left when it begins. So a phase that takes longer shortens the later ones, no
/// phase leaves them nothing, and all end with the budget.
///
/// | phase                     | share    | when its time is over                                                                      |
/// |---------------------------|----------|--------------------------------------------------------------------------------------------|
/// | start: load the model     | all      | mptune ends                                                                                |
/// | check the model's pieces  | 1/10     | comparisons that have not begun are left out; after 3/10 the worker is ended               |
/// | measure layers and links  | 1/4      | micro-batches between the smallest and the largest, the largest, other execution variants  |
/// |                           |          | and further links are left out; only the smallest may take all that is left: mptune ends   |
/// | search                    | 1/50     | the plans found so far are ranked; 1/100 for a second search, 1/200 for an outlook         |
/// | baselines and candidates  | the rest | no plan begins that would leave the last series no time                                    |
/// | last series               | the rest | no round begins that would not end in time                                                 |
/// | traces                    | the rest | at most 15 % of the budget is kept for them; a trace without time is a warning             |
///
/// Where mptune ends, it says what budget would do. A step that runs when the budget ends may end: the budget is exceeded by one step at
/// most, and by what ending a worker and writing the report take.
enum class Phase { check, measure, search, second_search, outlook };

struct PhaseTime {
  double share_s = 0;  ///< what the phase should take
  double most_s = 0;   ///< what it may take where the least useful part of it takes longer than that
};

/// Returns the time of a phase that begins when `left_s` of the budget are left [s].
[[nodiscard]] PhaseTime time_of(Phase phase, double left_s);

/// Returns how long a worker without a result may go on after the end of the budget [s]: mptune then says what budget would do.
[[nodiscard]] double grace_without_result(double budget_s);

/// What a run without any trial knows about the time that an answer takes [s]; 0: not known.
struct AnswerNeeds {
  double ready_s = 0;          ///< time before the first trial of a run that goes on with what the study keeps
  double worker_s = 0;         ///< time of a worker's start, until its first step
  double baseline_step_s = 0;  ///< step of the fastest plan that cuts nothing
  double plan_step_s = 0;      ///< step of the fastest plan
};

/// Returns a budget with which a run that goes on compares the two plans: a trial of each, and a last series with as many rounds as an
/// interval needs, and half as much time again for everything else. Returns 0 where the steps are not known.
[[nodiscard]] double enough_for_answer(const AnswerNeeds& needs);

/// Returns the needs as far as the first pass over all layers tells them, which took `seconds` for `samples` samples.
[[nodiscard]] AnswerNeeds needs_of_pass(int samples, double seconds, int batch, int devices, double worker_s);

}  // namespace mptune::tuner
