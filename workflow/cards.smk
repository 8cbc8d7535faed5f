# Shared by the rules that measure: the GPU of the host that a run is measured on, and the order.
# Only rules/records.smk includes this file.

# The runs of a block follow one another on one GPU of the host: each GPU is a resource of its own, for
# the job that measures on it and one that starts up meanwhile and waits for its lock. What is measured
# first has the highest priority, which is enough elsewhere, and on a CPU.
RANKS = {name: rank for rank, name in enumerate(ORDERS)}
GPUS = workflow.global_resources.get("gpu")
ON_CARDS = PREPARED.device == "cuda" and workflow.local_exec
CARDS = GPUS.value or 0 if GPUS and ON_CARDS else 0
for card in range(CARDS):
    workflow.register_resource(f"card{card}", 2)


def on_card(name, card, amount):
    """An input function: the share of a card that the job of a record takes."""

    def taken(wildcards):
        own = ORDERS[name.format(**wildcards)].get("card")
        return amount if own is not None and own % CARDS == card else 0

    return taken


def gpu_resources(name="{record}.json", amount=1):
    """The resources of a job that measures on a GPU: where cards are known, so much of its own.

    A run that is to be alone takes all of them.
    """
    if CARDS and PREPARED.config["alone"]:
        return {"gpu": CARDS}
    cards = {f"card{card}": on_card(name, card, amount) for card in range(CARDS)}
    return {"gpu": int(PREPARED.device == "cuda" and not cards), **cards}
