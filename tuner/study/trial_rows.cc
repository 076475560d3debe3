#include "tuner/study/trial_rows.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "planner/plan_file.h"
#include "profiler/base/error.h"

namespace mptune::tuner {
namespace {

constexpr const char* kTables = R"sql(
CREATE TABLE value (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE plan (plan_key TEXT PRIMARY KEY, plan TEXT NOT NULL) STRICT;
CREATE TABLE trial (
  id INTEGER PRIMARY KEY,
  series INTEGER NOT NULL,
  name TEXT NOT NULL,
  plan_key TEXT NOT NULL REFERENCES plan,
  outcome TEXT NOT NULL,
  device TEXT,
  requested_bytes INTEGER,
  cap_bytes INTEGER,
  limit_s REAL,
  signal INTEGER,
  exit_code INTEGER,
  reason TEXT,
  loss REAL,
  finished_utc TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE TABLE sample (
  trial INTEGER NOT NULL REFERENCES trial,
  number INTEGER NOT NULL,
  value_s REAL NOT NULL,
  round INTEGER NOT NULL,
  position INTEGER NOT NULL,
  started_s REAL NOT NULL,
  PRIMARY KEY (trial, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE peak (
  trial INTEGER NOT NULL REFERENCES trial,
  device INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (trial, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE prediction (
  trial INTEGER PRIMARY KEY REFERENCES trial,
  step_s REAL NOT NULL,
  lower_bound_s REAL NOT NULL,
  limiting_stage INTEGER NOT NULL,
  extrapolated INTEGER NOT NULL
) STRICT;
CREATE TABLE predicted_peak (
  trial INTEGER NOT NULL REFERENCES trial,
  device INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (trial, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE predicted_busy (
  trial INTEGER NOT NULL REFERENCES trial,
  device INTEGER NOT NULL,
  busy_s REAL NOT NULL,
  PRIMARY KEY (trial, device)
) STRICT, WITHOUT ROWID;
)sql";

// Columns that only some outcomes have.
struct OutcomeRow {
  std::optional<std::string> device;
  std::optional<std::int64_t> requested_bytes;
  std::optional<std::int64_t> cap_bytes;
  std::optional<double> limit_s;
  std::optional<int> signal;
  std::optional<int> exit_code;
  std::optional<std::string> reason;
  std::optional<double> loss;
};

OutcomeRow row_of(const Outcome& outcome) {
  OutcomeRow row;
  if (const auto* o = std::get_if<Measured>(&outcome)) row.loss = o->loss;
  if (const auto* o = std::get_if<OutOfMemory>(&outcome)) {
    row.device = o->device;
    row.requested_bytes = o->requested_bytes;
    row.cap_bytes = o->cap_bytes;
  }
  if (const auto* o = std::get_if<TimedOut>(&outcome)) {
    row.limit_s = o->limit_s;
    row.reason = o->doing;
  }
  if (const auto* o = std::get_if<Crashed>(&outcome)) {
    row.signal = o->signal;
    row.exit_code = o->exit_code;
    row.reason = o->doing;
  }
  if (const auto* o = std::get_if<WrongResult>(&outcome)) row.reason = o->reason;
  if (const auto* o = std::get_if<Infeasible>(&outcome)) row.reason = o->reason;
  if (const auto* o = std::get_if<Environment>(&outcome)) row.reason = o->reason;
  return row;
}

Outcome outcome_of(const std::string& name, const OutcomeRow& row) {
  std::optional<Outcome> outcome = outcome_named(name);
  if (!outcome)
    throw Error("unknown outcome '" + name + "' in a study", "table trial", "start a new study, or read it with the mptune that wrote it");
  // SQLite has no NaN: it stores NULL.
  if (auto* o = std::get_if<Measured>(&*outcome)) o->loss = row.loss.value_or(std::numeric_limits<double>::quiet_NaN());
  if (auto* o = std::get_if<OutOfMemory>(&*outcome))
    *o = {row.device.value_or(""), row.requested_bytes.value_or(0), row.cap_bytes.value_or(0)};
  if (auto* o = std::get_if<TimedOut>(&*outcome)) *o = {row.limit_s.value_or(0), row.reason.value_or("")};
  if (auto* o = std::get_if<Crashed>(&*outcome)) *o = {row.signal.value_or(0), row.exit_code.value_or(0), row.reason.value_or("")};
  if (auto* o = std::get_if<WrongResult>(&*outcome)) o->reason = row.reason.value_or("");
  if (auto* o = std::get_if<Infeasible>(&*outcome)) o->reason = row.reason.value_or("");
  if (auto* o = std::get_if<Environment>(&*outcome)) o->reason = row.reason.value_or("");
  return *outcome;
}

template <class T>
void bind_optional(SQLite::Statement& statement, int place, const std::optional<T>& value) {
  if (value)
    statement.bind(place, *value);
  else
    statement.bind(place);
}

void insert_plan(SQLite::Database& database, const Trial& trial) {
  SQLite::Statement insert(database, "INSERT OR IGNORE INTO plan VALUES (?, ?)");
  insert.bind(1, trial.plan_key);
  insert.bind(2, plan_to_json(trial.plan, {}));
  insert.exec();
}

void insert_row(SQLite::Database& database, Trial& trial) {
  SQLite::Statement insert(
      database,
      "INSERT INTO trial (series, name, plan_key, outcome, device, requested_bytes, cap_bytes, limit_s, signal, exit_code, "
      "reason, loss) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const OutcomeRow row = row_of(trial.outcome);
  insert.bind(1, trial.series);
  insert.bind(2, trial.name);
  insert.bind(3, trial.plan_key);
  insert.bind(4, outcome_class(trial.outcome));
  bind_optional(insert, 5, row.device);
  bind_optional(insert, 6, row.requested_bytes);
  bind_optional(insert, 7, row.cap_bytes);
  bind_optional(insert, 8, row.limit_s);
  bind_optional(insert, 9, row.signal);
  bind_optional(insert, 10, row.exit_code);
  bind_optional(insert, 11, row.reason);
  bind_optional(insert, 12, row.loss);
  insert.exec();
  trial.id = static_cast<int>(database.getLastInsertRowid());
}

void insert_samples(SQLite::Database& database, int trial, const Samples& samples) {
  SQLite::Statement insert(database, "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?)");
  int number = 0;
  for (const Sample& sample : samples.values) {
    SQLite::bind(insert, trial, number++, sample.value, sample.round, sample.position, sample.started);
    insert.exec();
    insert.reset();
  }
}

template <class T>
void insert_per_device(SQLite::Database& database, const std::string& table, int trial, const std::vector<T>& values) {
  SQLite::Statement insert(database, "INSERT INTO " + table + " VALUES (?, ?, ?)");
  int device = 0;
  for (const T& value : values) {
    SQLite::bind(insert, trial, device++, value);
    insert.exec();
    insert.reset();
  }
}

void insert_prediction(SQLite::Database& database, int trial, const Prediction& prediction) {
  SQLite::Statement insert(database, "INSERT INTO prediction VALUES (?, ?, ?, ?, ?)");
  SQLite::bind(insert, trial, prediction.step_s, prediction.lower_bound_s, prediction.limiting_stage, prediction.extrapolated ? 1 : 0);
  insert.exec();
  insert_per_device(database, "predicted_peak", trial, prediction.peak_bytes);
  insert_per_device(database, "predicted_busy", trial, prediction.busy_s);
}

template <class T>
std::optional<T> optional_of(const SQLite::Column& column) {
  if (column.isNull()) return std::nullopt;
  return static_cast<T>(column);
}

std::map<std::string, Plan> select_plans(SQLite::Database& database) {
  std::map<std::string, Plan> plans;
  SQLite::Statement rows(database, "SELECT plan_key, plan FROM plan");
  while (rows.executeStep()) {
    const std::string key = rows.getColumn(0);
    plans[key] = plan_from_json(rows.getColumn(1), "plan " + key + " of the study");
  }
  return plans;
}

Trial trial_of(SQLite::Statement& row, const std::map<std::string, Plan>& plans) {
  Trial trial;
  trial.id = row.getColumn(0);
  trial.series = row.getColumn(1);
  trial.name = row.getColumn(2).getString();
  trial.plan_key = row.getColumn(3).getString();
  if (const auto plan = plans.find(trial.plan_key); plan != plans.end()) trial.plan = plan->second;
  OutcomeRow details;
  details.device = optional_of<std::string>(row.getColumn(5));
  details.requested_bytes = optional_of<std::int64_t>(row.getColumn(6));
  details.cap_bytes = optional_of<std::int64_t>(row.getColumn(7));
  details.limit_s = optional_of<double>(row.getColumn(8));
  details.signal = optional_of<int>(row.getColumn(9));
  details.exit_code = optional_of<int>(row.getColumn(10));
  details.reason = optional_of<std::string>(row.getColumn(11));
  details.loss = optional_of<double>(row.getColumn(12));
  trial.outcome = outcome_of(row.getColumn(4), details);
  return trial;
}

// Appends column `value` of every row to the list that `list_of` names for the row's trial.
template <class T, class ListOf>
void select_per_device(SQLite::Database& database, const std::string& query, std::map<int, Trial>& trials, ListOf list_of) {
  SQLite::Statement rows(database, query);
  while (rows.executeStep()) {
    const auto found = trials.find(rows.getColumn(0).getInt());
    if (found == trials.end()) continue;
    if (std::vector<T>* list = list_of(found->second)) list->push_back(static_cast<T>(rows.getColumn(1)));
  }
}

void select_samples(SQLite::Database& database, std::map<int, Trial>& trials) {
  SQLite::Statement rows(database, "SELECT trial, value_s, round, position, started_s FROM sample ORDER BY trial, number");
  while (rows.executeStep()) {
    const auto found = trials.find(rows.getColumn(0).getInt());
    if (found == trials.end()) continue;
    if (auto* measured = std::get_if<Measured>(&found->second.outcome))
      measured->step_s.values.push_back({rows.getColumn(1), rows.getColumn(2), rows.getColumn(3), rows.getColumn(4)});
  }
}

void select_predictions(SQLite::Database& database, std::map<int, Trial>& trials) {
  SQLite::Statement rows(database, "SELECT trial, step_s, lower_bound_s, limiting_stage, extrapolated FROM prediction");
  while (rows.executeStep()) {
    const auto found = trials.find(rows.getColumn(0).getInt());
    if (found == trials.end()) continue;
    Prediction& prediction = found->second.prediction.emplace();
    prediction.step_s = rows.getColumn(1);
    prediction.lower_bound_s = rows.getColumn(2);
    prediction.limiting_stage = rows.getColumn(3);
    prediction.extrapolated = rows.getColumn(4).getInt() != 0;
  }
}

}  // namespace

void create_study_tables(SQLite::Database& database) {
  SQLite::Transaction transaction(database);
  database.exec(kTables);
  database.exec("PRAGMA application_id = " + std::to_string(kStudyApplication));
  database.exec("PRAGMA user_version = " + std::to_string(kStudyVersion));
  transaction.commit();
}

void insert_trial(SQLite::Database& database, Trial& trial) {
  if (trial.plan_key.empty()) trial.plan_key = plan_key(trial.plan);
  insert_plan(database, trial);
  insert_row(database, trial);
  if (const auto* measured = std::get_if<Measured>(&trial.outcome)) {
    insert_samples(database, trial.id, measured->step_s);
    insert_per_device(database, "peak", trial.id, measured->peak_bytes);
  }
  if (trial.prediction) insert_prediction(database, trial.id, *trial.prediction);
}

std::vector<Trial> select_trials(SQLite::Database& database) {
  const std::map<std::string, Plan> plans = select_plans(database);
  std::map<int, Trial> trials;
  SQLite::Statement rows(
      database,
      "SELECT id, series, name, plan_key, outcome, device, requested_bytes, cap_bytes, limit_s, signal, exit_code, reason, loss "
      "FROM trial ORDER BY id");
  while (rows.executeStep()) {
    Trial trial = trial_of(rows, plans);
    trials.emplace(trial.id, std::move(trial));
  }
  select_samples(database, trials);
  select_predictions(database, trials);
  using Bytes = std::vector<std::int64_t>;
  select_per_device<std::int64_t>(database, "SELECT trial, bytes FROM peak ORDER BY trial, device", trials, [](Trial& trial) -> Bytes* {
    auto* measured = std::get_if<Measured>(&trial.outcome);
    return measured == nullptr ? nullptr : &measured->peak_bytes;
  });
  select_per_device<std::int64_t>(database, "SELECT trial, bytes FROM predicted_peak ORDER BY trial, device", trials,
                                  [](Trial& trial) -> Bytes* { return trial.prediction ? &trial.prediction->peak_bytes : nullptr; });
  select_per_device<double>(database, "SELECT trial, busy_s FROM predicted_busy ORDER BY trial, device", trials,
                            [](Trial& trial) -> std::vector<double>* { return trial.prediction ? &trial.prediction->busy_s : nullptr; });
  std::vector<Trial> list;
  for (auto& [id, trial] : trials) list.push_back(std::move(trial));
  return list;
}

}  // namespace mptune::tuner
