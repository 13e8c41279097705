"""A run's summary as lines for people."""

from __future__ import annotations

from envs_node.deploy.summary import EvalSummary, SearchSummary, Summary
from envs_node.messages.fit import FitReport
from envs_node.policy.statistics import Estimate


def as_text(summary: Summary) -> str:
    """The summary, a block a phase."""
    lines = [f"run {summary.run} (envs-node {summary.version})"]
    if summary.search is not None:
        lines += _search(summary.search)
    if summary.fit is not None:
        lines += _fit(summary.fit)
    if summary.eval_before is not None and summary.eval_after is not None:
        lines += _compare(summary.eval_before, summary.eval_after)
    elif summary.eval_after is not None:
        lines += _eval(summary.eval_after)
    if summary.wall_s:
        phases = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in summary.wall_s.items())
        lines.append(f"wall time          {phases}")
    return "\n".join(lines)


def _search(search: SearchSummary) -> list[str]:
    verdicts = ", ".join(f"{name} {count}" for name, count in search.verdicts.items())
    states = ", ".join(f"{name} {count}" for name, count in search.states.items())
    unsolved = ", ".join(search.templates_unsolved) or "none"
    diverged = search.states_compared - search.states_equal - search.states_masked
    return [
        f"tasks              {search.tasks} ({states}) on {search.desktops} desktops",
        f"templates          {search.templates_certified} of {search.templates} have a certified "
        f"success; unsolved: {unsolved}",
        f"branches           {search.branches} ({search.reassigned} reassigned, "
        f"{search.lost} lost), {search.leaves} leaves judged",
        f"desktop actions    {search.new_actions} new, {search.replayed_actions} replayed, "
        f"{search.forked_actions} spared by forks",
        f"verdicts           {verdicts or 'none'}",
        f"successes          {search.verified} verified ({search.repeated} on a path found "
        f"before), {search.certified} certified, {search.distinct} distinct, "
        f"{search.uncertified} not reproduced",
        f"replay mismatches  {search.replay_mismatches} of {search.replays} compared replays "
        f"({search.replay_mismatch_rate:.1%})",
        f"drift              {search.states_compared} states of replays and copies compared: "
        f"{search.states_equal} equal, {search.states_masked} masked, {diverged} diverged",
        *([f"branches given up  in {', '.join(search.tasks_lost)}"] if search.tasks_lost else []),
    ]


def _fit(fit: FitReport) -> list[str]:
    return [
        f"examples           {fit.examples_before_sharing} steps, {fit.examples} after each shared "
        f"step is counted once, from {fit.trajectories} trajectories",
        f"fit                {fit.optimizer_steps} steps, loss {fit.loss_first:.3f} to "
        f"{fit.loss_last:.3f}, log p new - old {fit.log_ratio:.3f}, entropy "
        f"{fit.entropy_before:.2f} to {fit.entropy_after:.2f} nats",
    ]


def _compare(before: EvalSummary, after: EvalSummary) -> list[str]:
    pairs = [
        ("greedy", before.greedy, after.greedy),
        ("pass@1", before.pass_1, after.pass_1),
        (f"pass@{before.k}", before.pass_k, after.pass_k),
    ]
    lines = [f"held-out           {before.tasks} tasks, before and after the fit"]
    lines += [f"  {name:<17}{_share(old)}  ->  {_share(new)}" for name, old, new in pairs]
    return [*lines, *_unjudged(before), *_unjudged(after)]


def _eval(result: EvalSummary) -> list[str]:
    verdicts = ", ".join(f"{name} {count}" for name, count in result.verdicts.items())
    return [
        f"policy             {result.policy}",
        f"eval               {result.tasks} tasks, 1 greedy and {result.rollouts} sampled each",
        f"  greedy           {_share(result.greedy)}",
        f"  pass@1           {_share(result.pass_1)}",
        f"  pass@{result.k}           {_share(result.pass_k)}",
        f"verdicts           {verdicts or 'none'}",
        *_unjudged(result),
    ]


def _unjudged(result: EvalSummary) -> list[str]:
    """Name the tasks whose numbers are not whole; nothing where all are."""
    if not result.unjudged:
        return []
    return [
        f"judged             {result.judged}/{result.tasks} tasks; not, or not wholly: "
        + ", ".join(result.unjudged)
    ]


def _share(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
