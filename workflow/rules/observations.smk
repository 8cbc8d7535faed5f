# tables -> observations: the report's statements, as data.


use rule tables as observations with:
    input:
        plan=EXPERIMENTS,
        tables=TABLES,
        devices=DEVICES,
        ceilings=PLAN.ceilings or [],
        sources=sources("flashlab.story.stage"),
    output:
        f"{HOME}/{OBSERVATIONS}",
    log:
        f"{HOME}/logs/observations.log",
    params:
        command=f"observations {GIVEN} --output {HOME}/{OBSERVATIONS}",
    message:
        "Observing what the report says"
